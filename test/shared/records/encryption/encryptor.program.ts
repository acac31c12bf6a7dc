/** Does one kind of work on an encrypted store until it is killed, and prints a line for each step. */
import { uuidv7 } from "uuidv7";
import { startEncryptor } from "../../../../services/watchdog/encryption/encryptor.ts";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";
import { stepConversion } from "../../../../shared/records/encryption/jobs/conversion.ts";
import { readRotation } from "../../../../shared/records/encryption/jobs/rotation-record.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { requestBuckets, stepBuckets } from "../../../harness/encryption/rotation.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const [work, url, secret, stepsMax] = process.argv.slice(2) as [string, string, string, string | undefined];
const limit = Number(stepsMax || Infinity);
const engine = await openStore(url);
const { store, ring } = await openEncryption(engine, [secretKeyOf(secret)!]);
const format = await openFormat(store);
const guard = async () => {};

/** Looks at the rotation after each transaction of the jobs, before their next one, so that no place of the walk is missed. */
function killedInWalk(all: Store): Store {
  const places = new Set<string>();
  return {
    ...all,
    transact: async (options, body) => {
      const done = await all.transact(options, body);
      const { record } = await all.read({ label: "test", deadlineMs: 20_000 }, readRotation);
      const owner = record?.phase === "wrapping" ? record.owner : null;
      if (owner?.done) places.add(Buffer.from(owner.done).toString("hex"));
      if (places.size >= limit) process.kill(process.pid, "SIGKILL");
      return done;
    },
  };
}

const WORKS: Readonly<Record<string, () => Promise<string>>> = {
  /** Each commit makes the key of a new task. */
  async create() {
    const task = `task-${uuidv7()}`;
    await create(repositoryOn(store, { format }), { task });
    return task;
  },
  /** The jobs of two watchdogs, of which one at a time works. After some places of their rotation they are killed, in the middle of a walk over data keys. */
  async watch() {
    const watched = killedInWalk(store);
    for (const name of ["one", "two"])
      startEncryptor({
        ...{ store: watched, encryption: { engine, ring }, clock: systemClock },
        ...{ log: testLog, metrics: createMetrics() },
        leases: createLeaderLeases(store, name, Date.now),
      });
    return new Promise(() => {});
  },
  async convert() {
    const { converted } = await stepConversion({ engine, store, guard, nowMs: Date.now() });
    return String(converted);
  },
  /** A step of the rotation that was requested last; when it is complete, another one is requested. */
  async rotate() {
    const { state, rewrapped, record } = await stepBuckets({ store, engine, ring });
    if (state === "idle") await requestBuckets(store);
    return `${record?.phase ?? state} ${rewrapped}`;
  },
};

for (let step = 1; step <= limit; step += 1) process.stdout.write(`${await WORKS[work]!()}\n`);
// It waits for its end, with the store open.
setInterval(() => {}, 60_000);
