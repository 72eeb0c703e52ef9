// The search fetches its index, which browsers allow over HTTP only. From a disk, the field says what to do instead.
document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol !== "file:") return;
  const field = document.querySelector('[data-md-component="search-query"]');
  if (!field) return;
  const advice = "Search needs HTTP: python -m http.server --directory site";
  field.placeholder = field.title = advice;
  field.setAttribute("aria-label", advice);
  field.value = "";
  field.disabled = true;
});
