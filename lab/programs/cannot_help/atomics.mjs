// Node.js: workers that share one lock, made of Atomics, as libraries for shared memory make it.
import { Worker, isMainThread, workerData } from "node:worker_threads";
import { fileURLToPath } from "node:url";

function work(words, each) {
  for (let i = 0; i < each; i++) {
    while (Atomics.compareExchange(words, 0, 0, 1) !== 0) Atomics.wait(words, 0, 1);
    words[1]++;
    Atomics.store(words, 0, 0);
    Atomics.notify(words, 0, 1);
  }
}

if (isMainThread) {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const each = Number(process.argv[2] ?? 250000);
  const file = fileURLToPath(import.meta.url);
  const workers = Array.from({ length: 4 }, () => new Worker(file, { workerData: { words, each } }));
  await Promise.all(workers.map((worker) => new Promise((ended) => worker.on("exit", ended))));
  console.log(words[1]);
} else {
  work(workerData.words, workerData.each);
}
