"""The deeds of the laboratory's side door, by what they are done to. A deed is a line in a table.

A deed is a function of the cluster and keyword values; `call` checks the values of a JSON body
against its signature, so that a misspelt name is an error and not a deed half done.
"""
