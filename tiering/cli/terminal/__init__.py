"""Parts that commands share: options, help pages, output, exit status, logs, completion."""
