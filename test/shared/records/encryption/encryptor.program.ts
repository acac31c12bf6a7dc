/** Does one kind of work on an encrypted store until it is killed, and prints a line for each step. */
import { uuidv7 } from "uuidv7";
import { startEncryptor } from "../../../../services/watchdog/encryption/encryptor.ts";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";
import { stepConversion } from "../../../../shared/records/encryption/jobs/conversion.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { requestBuckets, stepBuckets } from "../../../harness/encryption/rotation.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

/** `option`: the number of steps; of a watchdog, its name. */
const [work, url, secret, option] = process.argv.slice(2) as [string, string, string, string | undefined];
const engine = await openStore(url);
const { store, ring } = await openEncryption(engine, [secretKeyOf(secret)!]);
const format = await openFormat(store);
const guard = async () => {};

const WORKS: Readonly<Record<string, () => Promise<string>>> = {
  /** Each commit makes the key of a new task. */
  async create() {
    const task = `task-${uuidv7()}`;
    await create(repositoryOn(store, { format }), { task });
    return task;
  },
  /** The job of a watchdog, which looks for work all the time. */
  async watch() {
    startEncryptor({
      ...{ store, encryption: { engine, ring }, clock: systemClock, log: testLog, metrics: createMetrics() },
      leases: createLeaderLeases(store, option ?? "", Date.now),
    });
    return "started";
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

const limit = work === "watch" ? 1 : Number(option || Infinity);
for (let step = 1; step <= limit; step += 1) process.stdout.write(`${await WORKS[work]!()}\n`);
// It waits for its end, with the store open.
setInterval(() => {}, 60_000);
