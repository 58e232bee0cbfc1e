// Before anything is drawn: the theme that was chosen here, so that the colours do not change while the page loads.
{
  const chosen = localStorage.getItem("lockstep.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
