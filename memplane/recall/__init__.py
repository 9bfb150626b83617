"""Which events a pack may use, and how well each answers the query. Pure: values in, values out."""
