// Checks of the services: which run and answer, their versions, their rights, their clocks and their disks.

import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import { connectionName, type ServiceDiagnosis } from "../../../../../shared/sdk/client/diagnosis.ts";
import { bytesText, counted } from "../../../rendering/terminal/text.ts";
import {
  type CheckCode,
  type CheckOutcome,
  failed,
  notChecked,
  orSound,
  sound,
  warning,
} from "../check-outcome.ts";
import type { BusFacts, DoctorFacts } from "../facts.ts";

/** The services without which a part of the work is not done, with the effect of their absence. */
const NEEDED = {
  writer: "no checkpoint is stored",
  reader: "no query is answered",
  coordinator: "no task is handed over",
  watchdog: "failed agents are not noticed",
} as const;

const nameOf = ({ diagnosis }: ServiceDiagnosis): string => connectionName(diagnosis);

export function checkServices(bus: BusFacts, version: string): readonly CheckOutcome[] {
  if (bus.unasked !== null) return unasked(bus.unasked.problem, bus.unasked.fix);
  return [
    ...checkRunning(bus),
    checkSilent(bus),
    ...checkVersions(bus, version),
    ...checkRights(bus),
    ...checkClocks(bus),
    ...checkBusClock(bus),
    ...checkDisks(bus),
  ];
}

function unasked(problem: string, fix: string): readonly CheckOutcome[] {
  const codes = [
    "services.answers",
    "services.version",
    "services.rights",
    "clocks.services",
    "clocks.bus",
    "disks.services",
  ] as const satisfies CheckCode[];
  const found = `the services cannot be asked: ${problem}`;
  const others = codes.map((code) => notChecked(code, found, fix));
  return [warning("services.running", found, fix), ...others];
}

function checkRunning({ services }: BusFacts): readonly CheckOutcome[] {
  const running = services.map(({ diagnosis }) => diagnosis.service);
  const isWhole = running.includes("standalone");
  const missing = Object.entries(NEEDED).filter(([role]) => !isWhole && !running.includes(role));
  const problems = missing.map(([role, effect]) =>
    failed(
      "services.running",
      `no ${role} answers: ${effect}`,
      `Start one: \`npx node services/${role}/main.ts\` with the settings of the others, or \`fleet up\` for the standalone fleet. If one runs, see its log and services.version. Runbook: a service does not run.`,
    ),
  );
  return orSound(problems, () => sound("services.running", countsOf(running)));
}

function countsOf(running: readonly string[]): string {
  const names = [...new Set(running)].sort();
  return names.map((name) => counted(running.filter((one) => one === name).length, name)).join(", ");
}

function checkSilent({ silent, services }: BusFacts): CheckOutcome {
  if (silent === null) {
    return notChecked(
      "services.answers",
      "the connections of the bus are not known, so an instance that is frozen cannot be noticed",
      "Set FLEET_NATS_MONITOR_URL of the services to the monitoring addresses of all nats-servers.",
    );
  }
  if (silent.length === 0)
    return sound("services.answers", `${counted(services.length, "instance")} answered`);
  return failed(
    "services.answers",
    `connected without an answer: ${silent.join(", ")}`,
    "The name has the service, the host and the process id. See its log and its /readyz; update an older version; restart a process that hangs.",
  );
}

function checkVersions({ services }: BusFacts, own: string): readonly CheckOutcome[] {
  const problems = services.flatMap((one): CheckOutcome[] => {
    const { version } = one.diagnosis;
    if (version === own) return [];
    const found = `${nameOf(one)} has version ${version}, this command ${own}`;
    return [
      warning(
        "services.version",
        found,
        `Install ${newest([version, own])} everywhere, and restart the services one after the other.`,
      ),
    ];
  });
  const forms = new Set(services.map(({ diagnosis }) => `${diagnosis.layout}/${diagnosis.schema_version}`));
  if (forms.size > 1) {
    const found = `the services write records of different forms: ${[...forms].sort().join(", ")} (layout/schema)`;
    problems.push(
      failed("services.version", found, "Install one version everywhere, the newest first on the readers."),
    );
  }
  const nodes = [...new Set(services.map(({ diagnosis }) => diagnosis.node))].sort().join(", ");
  if (services.length === 0) return [notChecked("services.version", "no service answers")];
  return orSound(problems, () => sound("services.version", `all have version ${own}, on Node ${nodes}`));
}

/** By the numbers of the version. */
const newest = (versions: readonly string[]): string =>
  versions.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1) ?? "";

function checkRights({ services }: BusFacts): readonly CheckOutcome[] {
  if (services.length === 0) return [notChecked("services.rights", "no service answers")];
  const problems = services.flatMap((one): CheckOutcome[] => {
    const refused = one.diagnosis.bus?.refused ?? [];
    if (refused.length === 0) return [];
    return [
      failed(
        "services.rights",
        `the bus refused to ${nameOf(one)}: ${refused.join(", ")}`,
        "Run `fleet access init DIR` again with this version, restart the nats-servers with its files, and give each service its new file in FLEET_NATS_CREDS.",
      ),
    ];
  });
  return orSound(problems, () => sound("services.rights", "the bus has refused nothing to the services"));
}

const milliseconds = (ms: number): string =>
  Math.abs(ms) < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;

/** Only the part of a difference that the way of the messages cannot explain is one of the clocks. */
function clockProblem(code: CheckCode, name: string, offset: number, uncertainty: number): CheckOutcome[] {
  const certain = Math.abs(offset) - uncertainty;
  if (certain < LIMITS.clock_skew_ms_warn) return [];
  const direction = offset > 0 ? "ahead of" : "behind";
  const found = `${name} is ${milliseconds(Math.abs(offset))} ${direction} the clock of this machine (± ${milliseconds(uncertainty)})`;
  const fix =
    "Synchronise the clocks of all machines: `timedatectl set-ntp true`, or chrony; `timedatectl status` shows whether it works.";
  return [(certain < LIMITS.clock_skew_ms_max ? warning : failed)(code, found, fix)];
}

function checkClocks({ services }: BusFacts): readonly CheckOutcome[] {
  if (services.length === 0) return [notChecked("clocks.services", "no service answers")];
  const problems = services.flatMap((one) =>
    clockProblem("clocks.services", `the clock of ${nameOf(one)}`, one.offsetMs, one.uncertaintyMs),
  );
  const largest = Math.max(...services.map(({ offsetMs }) => Math.abs(offsetMs)));
  return orSound(problems, () =>
    sound("clocks.services", `the largest difference to this machine is ${milliseconds(largest)}`),
  );
}

/** A service has measured it, so its own difference is added. */
function checkBusClock({ services }: BusFacts): readonly CheckOutcome[] {
  const measured = services.flatMap(({ diagnosis, offsetMs, uncertaintyMs }) => {
    const clock = diagnosis.bus?.clock;
    if (!clock) return [];
    const uncertainty = uncertaintyMs + clock.uncertainty_ms;
    return [{ server: diagnosis.bus?.server ?? "", offset: offsetMs + clock.offset_ms, uncertainty }];
  });
  const [best] = measured.toSorted((a, b) => a.uncertainty - b.uncertainty);
  if (best === undefined) return [notChecked("clocks.bus", "no service could read the clock of the bus")];
  return orSound(clockProblem("clocks.bus", "the clock of the bus", best.offset, best.uncertainty), () =>
    sound("clocks.bus", `the difference to this machine is ${milliseconds(Math.abs(best.offset))}`),
  );
}

function checkDisks({ services }: BusFacts): readonly CheckOutcome[] {
  const disks = services.flatMap((one) =>
    one.diagnosis.disks.map((disk) => ({
      name: nameOf(one),
      host: nameOf(one).replace(/^\w+\//, ""),
      ...disk,
    })),
  );
  const problems = disks.flatMap(
    ({ name, disk_of, free_bytes, total_bytes, min_free_bytes, state }): CheckOutcome[] => {
      if (state === "ok") return [];
      const found = `the disk of ${disk_of.join(" and ")} of ${name} is ${state}: ${bytesText(free_bytes)} free of ${bytesText(total_bytes)}`;
      const fix = `Free space, or enlarge the disk: commands are refused below ${bytesText(min_free_bytes)} (FLEET_DISK_MIN_FREE). Runbook: a disk is nearly full.`;
      return [(state === "full" ? failed : warning)("disks.services", found, fix)];
    },
  );
  if (disks.length === 0)
    return [notChecked("disks.services", "no answering service stores data on its own machine")];
  const least = disks.toSorted((a, b) => a.free_bytes - b.free_bytes)[0];
  return orSound(once(problems), () =>
    sound(
      "disks.services",
      `${bytesText(least?.free_bytes ?? 0)} free of ${bytesText(least?.total_bytes ?? 0)}`,
    ),
  );
}

/** Threads of one process report the same disk. */
const once = (problems: readonly CheckOutcome[]): readonly CheckOutcome[] => {
  const [first, ...others] = problems;
  if (first === undefined) return [];
  const more = others.length === 0 ? "" : `, and as ${counted(others.length, "other instance")} report`;
  return [{ ...first, found: `${first.found}${more}` }];
};

/** The problem is that of the bus. */
export function unreachedServices({ bus }: DoctorFacts): readonly CheckOutcome[] {
  if (!("problem" in bus)) return [];
  return unasked(bus.problem, bus.fix).map(({ code }) => notChecked(code, bus.problem));
}
