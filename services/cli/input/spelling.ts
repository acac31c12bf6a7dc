// Short forms of a call. Each noun is one group of verbs; its other number means the same group, and a call without a verb
// has the verb that is usual for the word: `fleet tasks` lists tasks, `fleet checkpoint --task auth` writes a checkpoint.

/** The group that a word means, if it is not a group itself. They are not in the help. */
const GROUPS: Readonly<Record<string, string>> = {
  tasks: "task",
  missions: "mission",
  sorties: "sortie",
  locks: "lock",
  messages: "message",
  mailbox: "message",
  checkpoints: "checkpoint",
  handoffs: "handoff",
  recoveries: "recovery",
  agent: "agents",
  alert: "alerts",
};

/** The verb of a word that stands alone or before an option. */
const VERBS: Readonly<Record<string, string>> = {
  checkpoint: "create",
  checkpoints: "list",
  tasks: "list",
  missions: "list",
  sorties: "list",
  locks: "list",
  messages: "list",
  mailbox: "read",
  handoffs: "list",
  recoveries: "list",
  agents: "list",
  alerts: "list",
};

/** The global options that have a value. */
const VALUED: ReadonlySet<string> = new Set(["--url", "--tenant", "--person", "--agent", "--timeout"]);
const HELP: ReadonlySet<string> = new Set(["-h", "--help"]);

/** The same call in its full form. */
export function fullCall(argv: readonly string[]): string[] {
  const first = firstWord(argv);
  const at = argv[first] === "help" ? first + 1 : first;
  const word = argv[at];
  if (word === undefined) return [...argv];
  const rest = argv.slice(at + 1);
  const isBare = at === first && (rest[0] === undefined || rest[0].startsWith("-"));
  const verb = isBare && !rest.some((one) => HELP.has(one)) ? own(VERBS, word) : undefined;
  return [...argv.slice(0, at), own(GROUPS, word) ?? word, ...(verb === undefined ? [] : [verb]), ...rest];
}

/** The place of the first word that is no global option. */
function firstWord(argv: readonly string[]): number {
  let at = 0;
  while (at < argv.length && argv[at]!.startsWith("-")) at += VALUED.has(argv[at]!) ? 2 : 1;
  return at;
}

const own = (map: Readonly<Record<string, string>>, key: string): string | undefined =>
  Object.hasOwn(map, key) ? map[key] : undefined;
