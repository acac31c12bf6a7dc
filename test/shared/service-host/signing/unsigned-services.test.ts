/** Services without a key in a store that comes to require signatures while they run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openSigning, type Signing } from "../../../../shared/service-host/signing/signing.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create, OPERATOR, openTestRecords } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

async function openRecords() {
  const records = await openTestRecords("memory");
  const home = mkdtempSync(join(tmpdir(), "fleet-unsigned-"));
  const open: Signing[] = [];
  const close = async () => {
    await Promise.all(open.map(({ stop }) => stop()));
    await records.close();
    rmSync(home, { recursive: true });
  };
  const start = async (options: { home?: string }) => {
    const context = { log: testLog, metrics: createMetrics({ ofProcess: false }), clock: systemClock };
    const signing = await openSigning(context, records.store, { service: "standalone", ...options });
    open.push(signing);
    return repositoryOn(signing.store, records);
  };
  return { records, close, unsigned: () => start({}), signed: () => start({ home }) };
}

test("a running service without a key fails its commits as soon as the store requires signatures", async () => {
  const { records, close, ...services } = await openRecords();
  onTestFinished(close);
  const unsigned = await services.unsigned();
  const repository = await services.signed();
  const refused = { code: "UNAVAILABLE", details: { setting: "FLEET_SIGNING_KEY" } };
  await expect(create(unsigned)).rejects.toMatchObject(refused);
  await expect(unsigned.startScrub(OPERATOR)).rejects.toMatchObject(refused);
  const { checkpoint_id } = await create(repository);
  expect(await unsigned.get("default", checkpoint_id, undefined)).toMatchObject({ metadata: { version: 1 } });
  const { pass } = await scrub({ store: records.store, repository });
  expect(pass.unsigned_entries).toBe(0);
  expect(await findingsOf(repository)).toEqual([]);
});

test("a commit without a signature and the requirement of signatures never both succeed", async () => {
  for (let round = 0; round < 20; round += 1) {
    const { records, close, ...services } = await openRecords();
    const unsigned = await services.unsigned();
    const [written, signing] = await Promise.allSettled([create(unsigned), services.signed()]);
    if (signing.status === "rejected") throw signing.reason;
    const repository = signing.value;
    const { signatures_required: isRequired } = await repository.signingKeys.list();
    expect({ round, isRequired }).toEqual({ round, isRequired: written.status === "rejected" });
    await scrub({ store: records.store, repository });
    expect(await findingsOf(repository)).toEqual([]);
    await close();
  }
});
