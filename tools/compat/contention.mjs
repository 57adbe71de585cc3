// Node.js under contention: workers that wait for each other by Atomics.wait (in V8 a condition variable for each
// waiter), with a mutex and a semaphore made of it; messages between threads; libuv's thread pool, busy with files,
// digests and compression. Arguments: number of threads, number of operations in all. Prints "ok".
import { createHash, pbkdf2, pbkdf2Sync } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { gunzip, gzip } from "node:zlib";

// Places in the shared memory.
const LOCK = 0, COUNTER = 1, UNITS = 2, INSIDE = 3, CROWDED = 4, TURN = 5, TIMED_OUT = 6, READY = 7, PLACES = 8;
const ringRounds = 10, units = 2;

function lock(memory) {
  if (Atomics.compareExchange(memory, LOCK, 0, 1) === 0) return;
  while (Atomics.exchange(memory, LOCK, 2) !== 0) Atomics.wait(memory, LOCK, 2);
}

function unlock(memory) {
  if (Atomics.exchange(memory, LOCK, 0) === 2) Atomics.notify(memory, LOCK, 1);
}

function down(memory) {
  for (;;) {
    const free = Atomics.load(memory, UNITS);
    if (free === 0) Atomics.wait(memory, UNITS, 0, 1000);
    else if (Atomics.compareExchange(memory, UNITS, free, free - 1) === free) return;
  }
}

function up(memory) {
  Atomics.add(memory, UNITS, 1);
  Atomics.notify(memory, UNITS, 1);
}

if (!isMainThread) {
  const { memory, me, threads, each } = workerData;
  // No thread notifies this word, so the wait must end by its time limit of 5 ms.
  if (Atomics.wait(memory, READY, 0, 5) === "timed-out") Atomics.add(memory, TIMED_OUT, 1);
  for (let i = 0; i < each; i++) {
    lock(memory);
    memory[COUNTER] = memory[COUNTER] + 1; // plain: the lock protects it
    unlock(memory);
    if (i % 20 === 0) {
      down(memory);
      if (Atomics.add(memory, INSIDE, 1) >= units) Atomics.store(memory, CROWDED, 1);
      Atomics.sub(memory, INSIDE, 1);
      up(memory);
      parentPort.postMessage(i);
    }
  }
  for (let round = 0; round < ringRounds; round++) {
    for (let turn; (turn = Atomics.load(memory, TURN)) !== round * threads + me;) Atomics.wait(memory, TURN, turn);
    Atomics.add(memory, TURN, 1);
    Atomics.notify(memory, TURN);
  }
} else {
  const threads = Number(process.argv[2]), each = Math.floor(Number(process.argv[3]) / threads);
  const memory = new Int32Array(new SharedArrayBuffer(4 * PLACES));
  memory[UNITS] = units;
  let messages = 0, sum = 0;
  const ends = [];
  for (let me = 0; me < threads; me++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { memory, me, threads, each } });
    worker.on("message", (i) => { messages++; sum += i; });
    ends.push(new Promise((done, failed) => worker.on("exit", done).on("error", failed)));
  }

  // During these steps the pool's threads work for this thread.
  const folder = await mkdtemp(join(tmpdir(), "usher-node-"));
  const expectedKey = pbkdf2Sync("password", "salt", 100, 32, "sha256").toString("hex");
  const wrongJobs = [];
  async function job(n) {
    const text = `${n}/`.repeat(5000), file = join(folder, `${n}`);
    await writeFile(file, text);
    const packed = await promisify(gzip)(await readFile(file));
    const key = (await promisify(pbkdf2)("password", "salt", 100, 32, "sha256")).toString("hex");
    const back = (await promisify(gunzip)(packed)).toString();
    if (back !== text || key !== expectedKey) wrongJobs.push(n);
    return createHash("sha256").update(back).digest("hex");
  }
  const digests = await Promise.all(Array.from({ length: 32 }, (_, n) => job(n)));
  const codes = await Promise.all(ends);
  await rm(folder, { recursive: true });

  let expectedSum = 0;
  for (let i = 0; i < each; i += 20) expectedSum += i * threads;
  const checks = {
    "exit codes": codes.every((code) => code === 0),
    counter: memory[COUNTER] === threads * each,
    semaphore: memory[CROWDED] === 0 && memory[INSIDE] === 0 && memory[UNITS] === units,
    ring: memory[TURN] === ringRounds * threads,
    "waits with a limit": memory[TIMED_OUT] === threads,
    messages: messages === threads * Math.ceil(each / 20) && sum === expectedSum,
    "thread pool": wrongJobs.length === 0 && new Set(digests).size === 32,
  };
  const wrong = Object.keys(checks).filter((name) => !checks[name]);
  if (wrong.length > 0) {
    console.error(`wrong: ${wrong.join(", ")}`);
    process.exit(1);
  }
  console.log("ok");
}
