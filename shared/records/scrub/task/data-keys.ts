/**
 * Verifies the keys that encrypt rows. Without its key every row of a task looks damaged, and one row that is restored from a backup repairs them all, so
 * the key is named and the rows are not.
 */
import { NO_TASK } from "../../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../protocol/ids.ts";
import { type KeyPlace, keyPlaceOf, SYSTEM_PLACE } from "../../encryption/keys/place.ts";
import { isUnreadable } from "../../encryption/sealed-value.ts";
import { ofTask, type ScrubStep, TaskScrub } from "../scrub-reader.ts";

const OR_BUCKET = ", or the bucket key that wrapped it";

/** False: the rows of the task cannot be decrypted. */
export async function verifyTaskKey(scrub: TaskScrub): Promise<boolean> {
  const { step, tenant, task, keys } = scrub;
  if (step.ring === null) return true;
  const found = await isKeySound(step, keyPlaceOf(tenant, task));
  if (found === false) note(scrub, `the data key of the task was changed${OR_BUCKET}`);
  if (found !== null) return found;
  const head = await step.reader.get(keys.task(task));
  if (head === undefined || !isUnreadable(head)) return true;
  // One damaged head beside sound rows has a key.
  note(scrub, "the data key of the task is lost");
  return false;
}

/**
 * The key of the rows of a tenant that are of no task, and with the first tenant that of the system. The tasks have keys of their own. The scrub cannot write
 * what it finds without the key of the system, but other processes may have forgotten it already.
 */
export async function verifyTenantKeys(step: ScrubStep, tenant: string): Promise<void> {
  const scrub = new TaskScrub(step, tenant, NO_TASK, { canMark: false, found: 0 });
  const places = { "the tenant": keyPlaceOf(tenant, null), "the system": SYSTEM_PLACE };
  for (const [owner, place] of Object.entries(places)) {
    if (place === SYSTEM_PLACE && tenant !== DEFAULT_TENANT) continue;
    if ((await isKeySound(step, place)) === false)
      note(scrub, `the data key of ${owner} was changed${OR_BUCKET}`);
  }
}

/** null: the place has no key. */
async function isKeySound({ reader, ring }: ScrubStep, place: KeyPlace): Promise<boolean | null> {
  if (ring === null) return null;
  const found = (await ring.fetch(reader, [place])).get(place.id);
  if (found === undefined) return null;
  // A rotation may have removed the bucket key that wrapped the row of this snapshot.
  return found !== null || !(await ring.isDamaged(place));
}

function note(scrub: TaskScrub, problem: string): void {
  scrub.note(ofTask("record", `${problem}: restore its row from a backup`));
}
