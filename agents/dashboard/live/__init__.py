"""What of an open page changes by itself; `pages` names each page's parts."""
