const end = process.hrtime.bigint() + 500000000n;
while (process.hrtime.bigint() < end) performance.now();
console.log(Date.now());
console.log(Date.now());
