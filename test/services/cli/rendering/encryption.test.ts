import { expect, test } from "vitest";
import { checkRows } from "../../../../services/cli/commands/doctor/checks/encrypted-rows.ts";
import type { BusFacts, DoctorFacts } from "../../../../services/cli/commands/doctor/facts.ts";
import { doctorData, renderDoctor } from "../../../../services/cli/rendering/doctor/doctor.ts";
import { renderEncryption } from "../../../../services/cli/rendering/keys/encryption.ts";
import type { EncryptionDiagnosis } from "../../../../shared/protocol/diagnosis.ts";
import { view } from "./view.ts";

const COMPLETE: EncryptionDiagnosis = {
  ...{ state: "complete", began_at: "2026-01-24T10:00:00.000Z", completed_at: "2026-01-24T10:00:00.000Z" },
  ...{ converted_rows: 0, root_key: "secret:aa", bucket_keys: 3, bucket_keys_of_other_roots: 0 },
  ...{ bucket_keys_damaged: 0, tenants_in_rotation: 0, rotations_pending: 0 },
  oldest_bucket_key_at: "2026-01-24T10:00:00.000Z",
};

const LMDB = { engine: "lmdb" };
const shownIn = (engine: string, state: EncryptionDiagnosis) => renderEncryption({ state, engine }, view);

function found(...states: (EncryptionDiagnosis | undefined)[]) {
  const services = states.map((encryption, n) => ({
    diagnosis: {
      ...{ service: "writer", instance: String(n), store: LMDB },
      ...(encryption !== undefined && { encryption }),
    },
  }));
  const facts = { services, unasked: null } as unknown as BusFacts;
  return checkRows(facts).map(({ state, found: text }) => `${state}: ${text}`);
}

test("the doctor finds what keeps rows from being encrypted", () => {
  expect(found(COMPLETE, COMPLETE)).toEqual(["ok: all rows with content are encrypted; root key secret:aa"]);
  expect(found({ state: "off" })).toEqual([
    "ok: not encrypted by the fleet: FLEET_ENCRYPTION_KEY is not set",
  ]);
  expect(found(undefined)).toEqual(["not_checked: no service says whether the store is encrypted"]);
  expect(found({ state: "off" }, COMPLETE)).toEqual([
    "failed: writer/0 does not encrypt the rows that it writes",
  ]);
  expect(found(COMPLETE, { ...COMPLETE, root_key: "secret:bb" })).toEqual([
    "warning: services wrap new keys by 2 different root keys",
  ]);
  expect(found({ ...COMPLETE, state: "converting" })).toEqual([
    "warning: rows from before the encryption are still plain",
  ]);
  expect(found({ ...COMPLETE, bucket_keys_of_other_roots: 2, bucket_keys_damaged: 1 })).toEqual([
    "failed: 1 bucket key cannot be read: another program changed the store",
    "warning: 2 bucket keys need a root key other than the first one",
  ]);
  expect(found({ ...COMPLETE, data_keys_damaged: 1, tenants_unavailable: 2 })).toEqual([
    "failed: 1 data key cannot be unwrapped: another program changed the store",
    "warning: the bucket keys of 2 tenants could not be rotated: a root key cannot be used",
  ]);
  expect(found({ ...COMPLETE, tenants_at_key_limit: 1 })).toEqual([
    "warning: a rotation gives 1 tenant no new bucket key: none of the earlier ones could be removed yet",
  ]);
});

const END = "2026-01-24T11:00:00.000Z";
const CONVERTED: EncryptionDiagnosis = { ...COMPLETE, completed_at: END, converted_rows: 12 };

test("a converted store is shown with the end of its conversion, and what is left to do", () => {
  const at = (started: string) => {
    const answered_ms = Date.parse(END) + 3_600_000;
    const diagnosis = {
      ...{ service: "writer", instance: "0", store: LMDB, encryption: CONVERTED, answered_ms },
      uptime_ms: answered_ms - Date.parse(started),
    };
    const [first, ...more] = checkRows({ services: [{ diagnosis }], unasked: null } as unknown as BusFacts);
    expect(more).toEqual([]);
    return first;
  };
  expect(at("2026-01-24T10:30:00.000Z")).toMatchObject({
    state: "warning",
    found: `writer/0 started before the end of the conversion (${END}), and may believe plain rows`,
    fix: "Restart it.",
    meaning: expect.stringMatching(/^Until then this service accepts a row without encryption/) as string,
  });
  expect(at("2026-01-24T11:30:00.000Z")).toMatchObject({
    state: "ok",
    found: expect.stringContaining(`Plain bytes from before ${END} may be left in the file`) as string,
  });
  const shown = shownIn("lmdb", CONVERTED);
  expect(shown).toContain(`Plain bytes from before ${END} may be left in the file`);
  expect(shown).toContain("`fleet backup` and `fleet restore` make a file without them");
  expect(shownIn("lmdb", COMPLETE)).not.toContain("Plain bytes");
  const restoredFrom = (restored_backup_at: string, restored_rows_only?: boolean) =>
    shownIn("lmdb", {
      ...{ ...CONVERTED, restored_backup_at },
      ...(restored_rows_only !== undefined && { restored_rows_only }),
    });
  expect(restoredFrom("2026-01-24T10:59:59.999Z", true)).toContain("Plain bytes");
  expect(restoredFrom(END, true)).not.toContain("Plain bytes");
  // Of an earlier version, or by a tool of the engine: it may have free pages.
  expect(restoredFrom(END)).toContain("Plain bytes");
  expect(restoredFrom(END, false)).toContain("Plain bytes");
});

test("the report says what a problem means: only plain rows can be read by another program", () => {
  const meanings = (state: EncryptionDiagnosis) => {
    const diagnosis = { service: "writer", instance: "0", store: LMDB, encryption: state };
    const rows = checkRows({ services: [{ diagnosis }], unasked: null } as unknown as BusFacts);
    const facts = { url: "", version: "1.0.0", bus: { problem: "not asked" } } as unknown as DoctorFacts;
    return { shown: renderDoctor(facts, rows, view), data: doctorData(facts, rows).checks };
  };
  const readable = "can read all work";
  const plain = meanings({ ...COMPLETE, state: "converting" });
  expect(plain.shown).toContain(readable);
  expect(plain.data).toMatchObject([{ meaning: expect.stringContaining(readable) as string }]);
  const needed = meanings({ ...COMPLETE, bucket_keys_of_other_roots: 2 });
  expect(needed.shown).not.toContain(readable);
  expect(needed.shown).toContain("cannot be taken out of use");
  expect(needed.data).toMatchObject([
    { meaning: expect.stringContaining("cannot be taken out of use") as string },
  ]);
});

test("on FoundationDB, the notice after a conversion names no command that refuses there", () => {
  const shown = shownIn("foundationdb", CONVERTED);
  expect(shown).toContain(`Plain bytes from before ${END} may be left in the files of the cluster`);
  expect(shown).toContain('Move the data of the cluster to other disks: see "Encryption of a plain store"');
  expect(shown).not.toMatch(/fleet (backup|restore)/);
  const diagnosis = {
    ...{ service: "writer", instance: "0", store: { engine: "foundationdb" }, encryption: CONVERTED },
    ...{ answered_ms: Date.parse(END) + 2, uptime_ms: 1 },
  };
  const [row] = checkRows({ services: [{ diagnosis }], unasked: null } as unknown as BusFacts);
  expect(row).toMatchObject({
    state: "ok",
    found: expect.stringContaining("may be left in the files of the cluster") as string,
  });
});

test("a team that requires encryption gets failures for plain rows and for unknown ones", () => {
  const required = (...states: (EncryptionDiagnosis | undefined)[]) => {
    const services = states.map((encryption) => ({
      diagnosis: {
        ...{ service: "writer", instance: "0", store: LMDB },
        ...(encryption !== undefined && { encryption }),
      },
    }));
    return checkRows({ services, unasked: null } as unknown as BusFacts, true)[0];
  };
  expect(required({ state: "off" })).toMatchObject({
    state: "failed",
    fix: expect.stringContaining("set FLEET_ENCRYPTION_KEY") as string,
  });
  expect(required(undefined)).toMatchObject({ state: "failed" });
  expect(required(COMPLETE)).toMatchObject({ state: "ok" });
});

test("`fleet keys encryption` shows whether an old root key is still needed", () => {
  const shown = (state: EncryptionDiagnosis) => shownIn("lmdb", state);
  expect(shown({ state: "off" })).toContain("are not encrypted");
  expect(shown(COMPLETE)).toContain("no other root key is needed");
  expect(shown({ ...COMPLETE, bucket_keys_of_other_roots: 2 })).toContain(
    "2 bucket keys still need another root key",
  );
  expect(shown({ ...COMPLETE, state: "converting", converted_rows: 1_200 })).toMatch(
    /being encrypted: 1.?200 so far/,
  );
  expect(shown({ ...COMPLETE, rotations_pending: 1 })).toContain("A rotation of bucket keys is in progress.");
  expect(shown({ ...COMPLETE, bucket_keys_damaged: 1 })).toMatch(
    /1 bucket key cannot be read\. `fleet keys encryption rotate` gives/,
  );
  expect(shown({ ...COMPLETE, tenants_at_key_limit: 2 })).toContain(
    "2 tenants cannot get a new bucket key. `fleet doctor` says what to do.",
  );
  const retryAt = new Date(view.now + 7_200_000).toISOString();
  const waiting = shown({
    ...COMPLETE,
    ...{ data_keys_damaged: 1, tenants_unavailable: 1, tenants_in_rotation: 2, rotation_retry_at: retryAt },
  });
  expect(waiting).toContain("1 data key cannot be unwrapped. A backup has the sound ones.");
  expect(waiting).toContain("1 tenant could not be rotated: a root key cannot be used.");
  expect(waiting).toContain("has left keys, and tries them again in 2h.");
});
