"""The console of a service, which has many users: who calls, and the pages before and after the service leads."""
