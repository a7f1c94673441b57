// Reads the report in the page, and shows it.

const PAGES = {
  trace: tracePage, bench: benchPage, wrongness: wrongnessPage, survey: surveyPage,
};
const main = document.querySelector('main');
const read = id => JSON.parse(document.getElementById(id).textContent);
main.append(...PAGES[main.dataset.kind](read('report'), read('beside')).filter(isGiven));
main.append(saveButton());
fit();
new ResizeObserver(fit).observe(main);
// In print all details are open.
window.addEventListener('beforeprint', () => {
  document.querySelectorAll('details').forEach(details => { details.open = true; });
});

// Saves the report, as `--format json` prints it.
function saveButton() {
  const button = make('button', { type: 'button' }, 'Save the report as JSON');
  button.addEventListener('click', () => {
    const text = document.getElementById('report').textContent;
    const link = make('a', { download: `clockscope-${main.dataset.kind}.json` });
    link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return make('footer', {}, button);
}
