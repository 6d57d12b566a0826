"""Training that goes on later, or elsewhere: odt's own format and onert's."""
