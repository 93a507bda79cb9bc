"""`lakeward doctor`: checks everything that Lakeward needs, changes nothing, and tells how to repair what is wrong."""
