/** Gives a whole file its name, and never replaces a file that has it. */
import { link, open, rename, rm } from "node:fs/promises";

/** How file systems without hard links, such as vfat and exFAT, refuse one. */
const NO_LINKS: ReadonlySet<unknown> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/**
 * `draft` is in the same folder, and may be there afterwards. Throws the errors of the file system, EEXIST among them. Where there are no links, an empty file takes
 * the name first: a process that is killed then leaves it, and it is refused as what it is not.
 */
export async function placeOnce(draft: string, path: string, linkFile = link): Promise<void> {
  try {
    await linkFile(draft, path);
  } catch (error) {
    if (!NO_LINKS.has((error as NodeJS.ErrnoException).code)) throw error;
    await renameOnce(draft, path);
  }
}

async function renameOnce(draft: string, path: string): Promise<void> {
  const place = await open(path, "wx", 0o600);
  await place.close();
  try {
    await rename(draft, path);
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}
