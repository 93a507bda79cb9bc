"""Charts of the console: points, and pictures of them for readers without scripts. They read what SQL reads."""
