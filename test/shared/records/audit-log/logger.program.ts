/** Writes checkpoints and appends them to the audit log until it is killed. Prints a line for each step of the log. */
import { setImmediate as turn } from "node:timers/promises";
import { signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { stepAuditLog } from "../../../../shared/records/audit-log/log-job.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { create } from "../../../harness/records/records.ts";
import { register, repositoryOn, storeSignedBy } from "../../../harness/records/signed.ts";

const [url, pem] = process.argv.slice(2) as [string, string];
const raw = await openStore(url);
const format = await openFormat(raw);
const key = signingKeyFrom(pem);
const store = storeSignedBy(raw, key);
await register(store, key);
const repository = repositoryOn(store, { format });
const write = async (task: string): Promise<never> => {
  for (;;) await create(repository, { task });
};
const append = async (): Promise<never> => {
  for (;;) {
    const step = await stepAuditLog({ store, guard: async () => {}, now: Date.now });
    if (step !== null) process.stdout.write(`${step.appended}\n`);
    // An embedded store answers reads without a turn of the event loop.
    await turn();
  }
};
await Promise.all([write("task-1"), write("task-2"), write("task-3"), append()]);
