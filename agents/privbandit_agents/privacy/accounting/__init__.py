"""What a release costs: conversions between notions, and the ledger that books them."""
