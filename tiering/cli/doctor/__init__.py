"""`lakeward doctor`: looks at everything that Lakeward needs, changes nothing, and says how to mend what is wrong."""
