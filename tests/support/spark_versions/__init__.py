"""Other versions of Spark than the locked one: their downloads, the statements that each executes, and the page that shows the results."""
