"""The application: wires the pipeline, runs its roles, and does what commands and the library ask
for.
"""
