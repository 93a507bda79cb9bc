"""How the tiering stands, on a screen and as a bundle for support."""
