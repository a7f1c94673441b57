window.onload = () => {
  const inner = document.getElementById('frame').contentDocument;
  const view = inner.defaultView;
  const press = (element, key) => element.dispatchEvent(
    new view.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const steps = () => { STEPS };
  const result = steps();
  const pre = document.createElement('pre');
  pre.id = 'seen';
  pre.textContent = JSON.stringify(result);
  document.getElementById('frame').remove();
  document.body.append(pre);
};
