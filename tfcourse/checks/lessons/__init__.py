"""The exercises and questions of every lesson, one module a lesson."""
