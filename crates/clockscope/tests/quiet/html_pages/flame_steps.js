const box = inner.querySelector('.flame');
const area = box.querySelector('.flame-frames > div');
const bar = name => [...area.children].find(b => b.textContent === name);
const wide = name => Math.round(100 * bar(name).getBoundingClientRect().width / area.clientWidth);
const seen = {};
seen.whole = [box.dataset.view, wide('start_thread'), wide('fd_psm_th')];
bar('fd_psm_th').click();
seen.zoomed = [box.dataset.view, wide('start_thread'), wide('fd_psm_th'),
  wide('fd_fifo_post_internal'), bar('fd_msg_rt_th') === undefined];
press(box, 'Escape');
seen.back = [box.dataset.view, wide('start_thread')];
bar('all calls').focus();
for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowRight']) {
  press(inner.activeElement, key);
}
seen.walked = inner.activeElement.textContent;
seen.told = box.querySelector('.flame-detail').textContent;
seen.reached = [...area.children].filter(b => b.tabIndex === 0).length;
inner.activeElement.click();
seen.entered = [box.dataset.view, inner.activeElement.textContent];
box.querySelector('.flame-bar button').click();
const search = box.querySelector('input');
search.value = 'FD_FIFO_POST';
search.dispatchEvent(new view.Event('input'));
seen.found = [box.querySelector('output').textContent, area.querySelectorAll('.found').length];
press(search, 'Escape');
seen.cleared = [search.value, area.querySelectorAll('.found').length];
seen.scripts = inner.querySelectorAll('script').length;
return seen;
