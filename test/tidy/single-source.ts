// Subjects, keys, limits and settings have one source, because two copies of a value differ sooner or later.

import { file, isProduction, type Node, type Rule, strings, visit } from "./source.ts";

const SUBJECTS = "shared/protocol/subjects.ts";
/** The rights of roles are patterns of subjects, with places for a tenant and a name. */
const PERMISSIONS = "shared/protocol/permissions.ts";
const KEYSPACE = "shared/records/kv/keyspace.ts";
const LIMITS = "shared/protocol/limits.ts";
/** The file, its parts, and the limits of engines. */
const isLimits = (path: string): boolean =>
  /^shared\/protocol\/([a-z]+-)?limits\.ts$/.test(path) || path === "shared/store/store.ts";

export const subjects: Rule = {
  name: `subjects are written only in ${SUBJECTS} and ${PERMISSIONS}`,
  check: (files) => {
    const source = files.find(({ path }) => path === SUBJECTS)?.text ?? "";
    const heads = [...new Set([...source.matchAll(/\bfleet\.([a-z_]+)\./g)].map(([, head]) => head!))];
    const subject = new RegExp(`^fleet\\.(${heads.join("|")})(\\.|$)`);
    return files
      .filter((one) => isProduction(one) && one.path !== SUBJECTS && one.path !== PERMISSIONS)
      .flatMap((one) =>
        strings(one)
          .filter((text) => heads.length > 0 && subject.test(text))
          .map((text) => `${one.path}: writes the subject "${text}"; use the one of ${SUBJECTS}`),
      );
  },
  broken: [
    file(SUBJECTS, 'export const all = "fleet.cmd.*";'),
    file("shared/bus/a.ts", `publish(\`fleet.cmd.\${tenant}\`);`),
  ],
  kept: [
    file(SUBJECTS, 'export const all = "fleet.cmd.*";'),
    file("shared/bus/a.ts", 'name("fleet.task_id");'),
  ],
};

export const keys: Rule = {
  name: `keys are written only in ${KEYSPACE}`,
  check: (files) =>
    files
      .filter((one) => isProduction(one) && one.path !== KEYSPACE)
      .flatMap((one) =>
        strings(one)
          .filter((text) => /\bcoditect\b/i.test(text))
          .map(() => `${one.path}: writes the root of the keys; use the key of ${KEYSPACE}`),
      ),
  broken: [file("shared/records/audit/audit.ts", 'const key = ["coditect", "audit"];')],
  kept: [
    file(KEYSPACE, 'const root = "coditect";'),
    file("shared/records/audit/audit.ts", "// the coditect keys"),
  ],
};

export const limits: Rule = {
  name: `limits are numbers only in ${LIMITS} and its parts`,
  check: (files) =>
    files
      .filter((one) => isProduction(one) && !isLimits(one.path))
      .flatMap((one) => {
        const found: string[] = [];
        visit(one, (node) => {
          const name = node.type === "Property" ? keyName(node.key as Node) : "";
          if (LIMIT.test(name) && isNumber(node.value as Node)) {
            found.push(`${one.path}: sets the limit ${name}; use the one of ${LIMITS}`);
          }
        });
        return found;
      }),
  broken: [file("shared/bus/a.ts", "const limits = { batch_count_max: 4 * 64 };")],
  kept: [file("shared/bus/a.ts", "const limits = { batch_count_max: LIMITS.batch_count_max };")],
};

// The names of limits have a unit before max or min. Names without a unit are other words, such as opcodes.
const LIMIT = /_(bytes|ms|count|chars|rows|items|words|limit|depth)_(max|min)$/;

const keyName = (key: Node): string => String(key.name ?? key.value ?? "");

function isNumber(node: Node): boolean {
  if (node.type === "Literal") return typeof node.value === "number";
  if (node.type === "BinaryExpression") return isNumber(node.left as Node) && isNumber(node.right as Node);
  return false;
}

export const testSwitches: Rule = {
  name: "production code has no switch for tests",
  check: (files) =>
    files.filter(isProduction).flatMap((one) => {
      const found = /\b__test\w*|\bNODE_ENV\b|\bVITEST\w*/.exec(one.text);
      return found
        ? [`${one.path}: has the switch ${found[0]}; pass the dependency of the test instead`]
        : [];
    }),
  broken: [file("shared/bus/a.ts", 'if (process.env.NODE_ENV === "test") skip();')],
  kept: [file("test/shared/bus/a.test.ts", "process.env.VITEST_POOL_ID"), file("shared/bus/a.ts", "go();")],
};

/** The environment variables of the system and of other programs; those of Fleet begin with FLEET_. */
const FOREIGN =
  /^(PATH|HOME|TERM|CI|NO_COLOR|FORCE_COLOR|COLUMNS|HOSTNAME|USER|npm_\w+|OTEL_\w+|NODE_\w+|KUBERNETES_\w+|XDG_\w+|TMPDIR|EDITOR)$/;

const SETTINGS = "deploy/SETTINGS.md";

export const settings: Rule = {
  name: "the settings page has every setting, and no other",
  check: (files) => {
    const documented = new Set(
      [
        ...(files.find(({ path }) => path === SETTINGS)?.text ?? "").matchAll(/^\|\s*`(FLEET_[A-Z0-9_]+)`/gm),
      ].map(([, name]) => name!),
    );
    const read = new Map(
      files
        .filter((one) => isProduction(one) && one.path !== SUBJECTS)
        .flatMap((one) => settingsOf(one).map((name) => [name, one.path] as const)),
    );
    return [
      ...[...read]
        .filter(([name]) => !name.startsWith("FLEET_"))
        .map(([name, path]) => `${path}: reads ${name}; the settings of Fleet begin with FLEET_`),
      ...[...read]
        .filter(([name]) => name.startsWith("FLEET_") && !documented.has(name))
        .map(
          ([name, path]) =>
            `${path}: reads ${name}; add its field to deploy/settings/settings-page.ts, then npm run generate`,
        ),
      ...[...documented]
        .filter((name) => !read.has(name))
        .map((name) => `${SETTINGS}: describes ${name}, which no program reads; remove its field`),
    ];
  },
  broken: [
    file(SETTINGS, "| `FLEET_OLD` | gone |"),
    file("services/writer/config.ts", 'text("FLEET_NEW", {})'),
  ],
  kept: [
    file(SETTINGS, "| `FLEET_NEW` | x |"),
    file("services/writer/config.ts", 'text("FLEET_NEW", {}); process.env.PATH;'),
  ],
};

function settingsOf(one: { path: string; text: string }): string[] {
  const found = strings(one).filter((text) => /^FLEET_[A-Z0-9_]*[A-Z0-9]$/.test(text));
  visit(one, (node) => {
    if (node.type !== "MemberExpression" || node.computed) return;
    const name = keyName(node.property as Node);
    const object = one.text.slice((node.object as Node).start, (node.object as Node).end);
    if (/(^|\.)env$/.test(object) && /^[A-Z]/.test(name)) found.push(name);
  });
  return found.filter((name) => !FOREIGN.test(name));
}
