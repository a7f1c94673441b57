const table = [...inner.querySelectorAll('table')]
  .find(t => t.caption?.textContent.startsWith('Calls of all processes'));
// The first column of the table of calls, and the heading that it is sorted by.
const rows = () => [...table.tBodies[0].rows].map(r => r.cells[0].textContent);
const sorted = () => [...table.tHead.rows[0].cells]
  .filter(c => c.hasAttribute('aria-sort'))
  .map(c => c.textContent + ' ' + c.getAttribute('aria-sort')).join();
const heading = name => [...table.querySelectorAll('thead button')]
  .find(b => b.textContent === name);
const seen = [[sorted(), rows()[0], rows().at(-1)]];
for (const name of ['calls', 'calls', 'call', 'call', 'errors']) {
  heading(name).focus();
  inner.activeElement.click();
  seen.push([sorted(), rows()[0], rows().at(-1)]);
}
return seen;
