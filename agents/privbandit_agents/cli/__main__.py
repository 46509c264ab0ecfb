"""``python -m privbandit_agents.cli``."""

from privbandit_agents.cli.main import main

main()
