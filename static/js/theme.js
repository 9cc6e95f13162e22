/* Runs before the first paint: the remembered theme, if one was chosen, and how dense
   the rows are. The admin remembers the theme under the same name. */
"use strict";
(function () {
  try {
    var chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") {
      document.documentElement.dataset.theme = chosen;
    }
    if (localStorage.getItem("density") === "compact") {
      document.documentElement.dataset.density = "compact";
    }
  } catch (error) {
    /* Storage may be forbidden; the system's theme is then the theme. */
  }
})();
