"""The help of the console, from the documentation that the wheel ships."""
