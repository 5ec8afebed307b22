"""The layouts that relens imports, one in each module."""
