"""What a run is and what it gives; where runs are trained."""
