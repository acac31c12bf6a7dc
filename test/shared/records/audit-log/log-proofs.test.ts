/** The proofs that the log of an earlier size begins with the one of a still earlier size, for those who hold both checkpoints. */
import { expect, test } from "vitest";
import { type LogCheckpoint, openCheckpoint } from "../../../../shared/integrity/merkle/note.ts";
import { isConsistent } from "../../../../shared/integrity/merkle/proofs.ts";
import { create, ENGINES } from "../../../harness/records/records.ts";
import { openSignedRecords } from "../../../harness/records/signed.ts";
import { appendAll } from "./logs.ts";

const STEPS = 9;

test.each(ENGINES)("each earlier log is proved against each smaller one on %s", async (engine) => {
  const records = await openSignedRecords(engine);
  try {
    const state = (query = {}) => records.repository.auditLogs.state("default", query);
    const logs: LogCheckpoint[] = [];
    for (let n = 0; n < STEPS; n += 1) {
      await create(records.repository);
      await appendAll(records.store);
      logs.push(openCheckpoint((await state()).checkpoint!, [records.key.publicKey])!.checkpoint);
    }
    for (const [i, newer] of logs.entries())
      for (const older of logs.slice(0, i + 1)) {
        const { consistency } = await state({ since_size: older.size, size: newer.size });
        const proof = consistency!.map((hash) => Buffer.from(hash, "base64"));
        expect(isConsistent(older, newer, proof), `${older.size} in ${newer.size}`).toBe(true);
      }
    const [first, last] = [logs[0]!.size, logs.at(-1)!.size];
    expect((await state({ since_size: first, size: last + 1 })).consistency).toBeNull();
    expect((await state({ since_size: last, size: first })).consistency).toBeNull();
    expect(await state({ size: first })).not.toHaveProperty("consistency");
  } finally {
    await records.close();
  }
});
