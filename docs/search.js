// The search fetches its index, which browsers allow over HTTP only; from a disk, its field is hidden. So say it.
document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol !== "file:") return;
  const command = document.createElement("code");
  command.textContent = "python -m http.server --directory site";
  const note = document.createElement("p");
  note.className = "search-note";
  note.append("The search works over HTTP only: ", command);
  document.querySelector("main").before(note);
});
