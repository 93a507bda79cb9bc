"""Fresh reads in tests: in this process, at a coordinator and through a service; a model of their rows; writers beside them."""
