/** Does one kind of work on an encrypted store until it is killed, and prints a line for each step. */
import { uuidv7 } from "uuidv7";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";
import { stepConversion } from "../../../../shared/records/encryption/jobs/conversion.ts";
import { addBuckets, rewrapDataKeysOfAll } from "../../../../shared/records/encryption/jobs/rotation.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { create } from "../../../harness/records/records.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const [work, url, secret] = process.argv.slice(2) as [string, string, string];
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
  async convert() {
    const { converted } = await stepConversion({ engine, store, guard, nowMs: Date.now() });
    return String(converted);
  },
  async rotate() {
    await addBuckets({ engine, ring, guard });
    process.stdout.write("added\n");
    return String((await rewrapDataKeysOfAll({ engine, ring, guard })).rewrapped);
  },
};

for (;;) process.stdout.write(`${await WORKS[work]!()}\n`);
