/** A store with a folder of the mirror beside it, and the repository that restores from it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DiskSync } from "../../../shared/mirror/disk-sync.ts";
import { MirrorFiles } from "../../../shared/mirror/files.ts";
import { MirrorFolder } from "../../../shared/mirror/folder.ts";
import {
  type MirrorParts,
  type MirrorStep,
  stepMirror,
  storeIdentity,
} from "../../../shared/mirror/follower.ts";
import type { Restored } from "../../../shared/records/corruption/restore.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { type Engine, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

export interface MirrorBench extends TestRecords {
  readonly path: string;
  readonly folder: MirrorFolder;
  readonly parts: MirrorParts;
  readonly restored: Restored[];
  /** Follows the feed to its end; returns the steps. */
  follow(): Promise<MirrorStep[]>;
}

export async function openMirrorBench(engine: Engine, path?: string): Promise<MirrorBench> {
  const home = path ?? mkdtempSync(join(tmpdir(), "fleet-mirror-"));
  const records = await openTestRecords(engine);
  const folder = new MirrorFolder(home);
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
    folder,
    files: new MirrorFiles(home),
    disk: new DiskSync(
      async () => {},
      () => 0,
      () => {},
    ),
    identity: storeIdentity(records.format),
  };
  return {
    ...records,
    repository,
    path: home,
    folder,
    parts,
    restored,
    async follow() {
      const steps: MirrorStep[] = [];
      for (;;) {
        const step = await stepMirror(parts, async () => true);
        if (step === null) return steps;
        steps.push(step);
      }
    },
    async close() {
      await records.close();
      if (path === undefined) rmSync(home, { recursive: true, force: true });
    },
  };
}
