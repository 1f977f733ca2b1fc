"""Pictures of covers and bounds."""
