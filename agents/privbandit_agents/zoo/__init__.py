"""Agents by name: entries, settings that make one, and plug-ins.

Three nouns: an *entry* (name, class, families, promise), the *registry* (``make`` builds from it), a *plug-in*.
"""

__all__: list[str] = []
