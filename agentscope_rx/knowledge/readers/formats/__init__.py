"""Parsers of formats: plain generators that run in a child process. They import no other part of the library."""
