"""From finished runs to tables, pictures and reports."""
