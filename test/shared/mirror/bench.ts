/** A store with a folder of the mirror beside it, and the repository that restores from it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seal } from "../../../shared/integrity/seal.ts";
import { fileContent } from "../../../shared/mirror/checkpoint-file.ts";
import { DiskSync } from "../../../shared/mirror/disk-sync.ts";
import type { MirrorSeal } from "../../../shared/mirror/encryption/mirror-seal.ts";
import { MirrorFiles } from "../../../shared/mirror/files.ts";
import { MirrorFolder } from "../../../shared/mirror/folder.ts";
import {
  type MirrorParts,
  type MirrorStep,
  mirrorIdentity,
  stepMirror,
} from "../../../shared/mirror/follower.ts";
import { decodePlace } from "../../../shared/records/checkpoint/checkpoint-location.ts";
import { decodeOrder, writeOrder } from "../../../shared/records/checkpoint/order.ts";
import type { Restored } from "../../../shared/records/corruption/restore.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Store } from "../../../shared/store/store.ts";
import { type Engine, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

export interface MirrorBench extends TestRecords {
  readonly path: string;
  readonly folder: MirrorFolder;
  readonly parts: MirrorParts;
  readonly restored: Restored[];
  /** Follows the feed to its end; returns the steps. */
  follow(): Promise<MirrorStep[]>;
}

/** `seal` undefined: the files are plain. */
export async function openMirrorBench(
  engine: Engine,
  path?: string,
  seal?: MirrorSeal,
): Promise<MirrorBench> {
  const home = path ?? mkdtempSync(join(tmpdir(), "fleet-mirror-"));
  const records = await openTestRecords(engine);
  const folder = new MirrorFolder(home, async () => seal);
  const restored: Restored[] = [];
  const repository = new CheckpointRepository({
    store: records.store,
    format: records.format,
    finder: "reader",
    now: Date.now,
    onCorrupt: (_task, found) => records.corrupt.push(found),
    copies: { read: (tenant, task, id) => folder.read({ tenant, task }, id) },
    onRestored: (_task, one) => restored.push(one),
  });
  const parts: MirrorParts = {
    store: records.store,
    files: new MirrorFiles(home, seal),
    disk: new DiskSync(
      async () => {},
      () => 0,
      () => {},
    ),
    identity: mirrorIdentity(records.format, seal),
  };
  const bench: MirrorBench = {
    ...records,
    repository,
    path: home,
    folder,
    parts,
    restored,
    async follow() {
      const steps: MirrorStep[] = [];
      for (;;) {
        const step = await stepMirror(this.parts, async () => true);
        if (step === null) return steps;
        steps.push(step);
      }
    },
    async close() {
      await records.close();
      if (path === undefined) rmSync(home, { recursive: true, force: true });
    },
  };
  return bench;
}

/** The checkpoint has another schema version from the beginning, and its row is lost: only its file in the mirror is left. */
export async function mirrorAs(
  { path, store }: { readonly path: string; readonly store: Store },
  { task, id, schemaVersion }: { readonly task: string; readonly id: string; readonly schemaVersion: string },
): Promise<void> {
  const name = join(path, "checkpoints", task, `chk-${id}.json`);
  const { compliance, ...checkpoint } = JSON.parse(readFileSync(name, "utf8"));
  const { hash: _hash, ...unsealed } = compliance;
  const sealed = seal({ ...checkpoint, schema_version: schemaVersion, compliance: unsealed }, 1_000_000);
  const keys = tenantKeys("default");
  await store.transact({ label: "test", deadlineMs: 10_000, onUnknown: "safe" }, async (tx) => {
    const { seq } = decodePlace((await tx.get(keys.id(id)))!);
    const order = decodeOrder(await tx.get(keys.order(task, seq)))!;
    writeOrder(tx, keys, task, seq, {
      ...order,
      retention: order.retention ?? "standard",
      hash: sealed.hash,
    });
    tx.clear(keys.checkpoint(task, id));
  });
  writeFileSync(name, fileContent(sealed));
}
