// Checks of the machine on which the command runs: disk, modes of files, and commands that were not sent.

import { shellWord } from "../../../../../shared/runtime/process/installation.ts";
import { bytesText, counted } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound, warning } from "../check-outcome.ts";
import type { DoctorFacts } from "../facts.ts";
import type { OpenFile } from "../open-files.ts";

export function checkMachine({ machine, program }: DoctorFacts): readonly CheckOutcome[] {
  const { home, openFiles, disk, spools, hasKeys } = machine;
  return [
    checkDisk(disk, home),
    ...checkFiles(openFiles, home),
    personsNote(hasKeys, program),
    ...checkSpools(spools, program),
  ];
}

/** A note, because each machine with a fleet has its keys, and there is nothing to repair. */
function personsNote(hasKeys: boolean, program: string): CheckOutcome {
  const found = hasKeys
    ? `this user has the keys of the fleet and can act under any name; two names are two persons only with credentials of their own: \`${program} access issue\``
    : "no keys on this machine make credentials for any name";
  return sound("machine.persons", found);
}

function checkDisk(disk: DoctorFacts["machine"]["disk"], home: string | null): CheckOutcome {
  const place = home ?? "this folder";
  if (disk === undefined) return notChecked("machine.disk", `the disk of ${place} cannot be read`);
  const { freeBytes, totalBytes, level } = disk;
  const text = `${bytesText(freeBytes)} free of ${bytesText(totalBytes)}`;
  if (level === "ok") return sound("machine.disk", text);
  const fix = `Free space on the disk of ${place}, or choose another folder with FLEET_HOME.`;
  return (level === "full" ? failed : warning)(
    "machine.disk",
    `the disk of ${place} is ${level}: ${text}`,
    fix,
  );
}

function checkFiles(files: readonly OpenFile[], home: string | null): readonly CheckOutcome[] {
  const problems = files.map(({ path, mode, why, foreign }) => {
    const owner = foreign ? "belongs to another user, and " : "";
    const effect =
      why === "secret"
        ? "other users can read it"
        : foreign
          ? "that user can change it"
          : "other users can change it";
    const found = `${path} ${owner}has mode ${mode.toString(8).padStart(4, "0")}: ${effect}`;
    const fix = foreign
      ? `Give it to the user of the fleet: \`chown -R $(id -u) ${shellWord(path)}\`.`
      : `\`chmod ${why === "secret" ? "go=" : "go-w"} ${shellWord(path)}\`, and replace keys that others may have read: \`fleet access --help\`.`;
    return failed("machine.permissions", found, fix);
  });
  if (process.platform === "win32")
    return [notChecked("machine.permissions", "Windows has no modes of files")];
  const what =
    home === null
      ? "no fleet has run in this folder; the spools are closed"
      : "keys, store and spools are closed";
  return orSound(problems, () => sound("machine.permissions", `${what} to other users`));
}

function checkSpools(spools: DoctorFacts["machine"]["spools"], program: string): readonly CheckOutcome[] {
  const problems = spools.map(({ agentId, path, commands, aside, reasons }) => {
    const waiting = [
      ...(commands > 0 ? [`${counted(commands, "command")} of ${agentId} wait`] : []),
      ...(aside > 0 ? [`${counted(aside, "command")} of ${agentId} were set aside`] : []),
    ];
    const fix = [
      `\`${program} spool status\` names their fleet, and \`${program} spool flush\` sends them now.`,
      ...(reasons.includes("sealed")
        ? [`Name the key of sealed ones in FLEET_SPOOL_KEY, and send them with \`${program} spool reopen\`.`]
        : []),
    ].join(" ");
    return warning("machine.spool", `${waiting.join(", ")} in ${path}`, fix);
  });
  return orSound(problems, () => sound("machine.spool", "no commands wait on this machine"));
}
