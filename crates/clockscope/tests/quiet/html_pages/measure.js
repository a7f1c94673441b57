window.onload = () => {
  const inner = document.getElementById('frame').contentDocument;
  const view = inner.defaultView;
  const svgs = [...inner.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().width > 0);
  let least = 1000;
  const cut = [], over = [];
  for (const svg of svgs) {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
    for (const t of svg.querySelectorAll('text')) {
      least = Math.min(least, parseFloat(view.getComputedStyle(t).fontSize) * scale);
    }
    texts.forEach(([a, r], i) => {
      if (r.left < frame.left - 2 || r.right > frame.right + 2 || r.top < frame.top - 4 || r.bottom > frame.bottom + 4) cut.push(a);
      for (const [b, q] of texts.slice(i + 1)) {
        const wide = Math.min(r.right, q.right) - Math.max(r.left, q.left);
        const high = Math.min(r.bottom, q.bottom) - Math.max(r.top, q.top);
        if (wide > 1 && high > 4) over.push(a + ' / ' + b);
      }
    });
  }
  for (const box of inner.querySelectorAll('.scroll')) {
    const frame = box.getBoundingClientRect();
    for (const cell of box.querySelectorAll('th, td')) {
      const r = cell.getBoundingClientRect();
      if (r.width > 0 && (r.right > frame.right + 1 || r.left < frame.left - 1)) cut.push(cell.textContent);
    }
  }
  const light = c => {
    const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = view.getComputedStyle(inner.body);
  const ground = light(style.backgroundColor === 'rgba(0, 0, 0, 0)' ? 'rgb(255,255,255)' : style.backgroundColor);
  const ink = light(style.color);
  const pre = document.createElement('pre');
  pre.id = 'seen';
  pre.textContent = JSON.stringify({
    page_width: inner.documentElement.scrollWidth, is_dark: ground < 0.2,
    contrast: (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05),
    pictures: svgs.length, least_letter_px: least, cut_off: cut, overlapping: over,
  });
  document.getElementById('frame').remove();
  document.body.append(pre);
};
