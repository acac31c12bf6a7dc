// Parses apt's source lists in both formats, as far as the search for a mirror needs it.

/**
 * @param {string} path decides the format: *.sources is deb822, everything else one line per source
 * @param {string} text the file's content
 * @returns {{ uris: string[], suites: string[], signedBy?: string }[]} the enabled sources of binary packages
 */
export function parseSources(path, text) {
  return path.endsWith(".sources") ? parseStanzas(text) : parseLines(text);
}

/** The distribution's mirrors among the sources: those that offer the running release. */
export function mirrorsOf(sources, codenames) {
  const rolling = ["stable", "testing", "unstable", "sid"];
  const found = new Map();
  for (const { uris, suites, signedBy } of sources) {
    if (!suites.some((suite) => codenames.includes(suite) || rolling.includes(suite))) continue;
    for (const uri of uris) {
      if (!uri.startsWith("cdrom:") && !found.has(uri))
        found.set(uri, { uri, ...(signedBy ? { signedBy } : {}) });
    }
  }
  // Other vendors name their suites after the release too. The path of a distribution's archive ends in its name.
  const isArchive = ({ uri }) => /\/(debian|ubuntu|ubuntu-ports)\/?$/.test(uri);
  return [...found.values()].sort((a, b) => Number(isArchive(b)) - Number(isArchive(a)));
}

function parseStanzas(text) {
  const withoutComments = text.replace(/^#.*\n?/gm, "");
  return withoutComments.split(/\n\s*\n/).flatMap((stanza) => {
    const unfolded = stanza.replace(/\n[ \t]+/g, " ");
    const field = (name) => new RegExp(`^${name}:[ \\t]*(.*)$`, "im").exec(unfolded)?.[1]?.trim() ?? "";
    if (!words(field("Types")).includes("deb") || /^(no|false|0)$/i.test(field("Enabled"))) return [];
    return [source(words(field("URIs")), words(field("Suites")), field("Signed-By"))];
  });
}

function parseLines(text) {
  return [...text.matchAll(/^[ \t]*deb[ \t]+(?:\[(.*?)\][ \t]+)?(\S+)[ \t]+(\S+)/gm)].map(
    ([, options, uri, suite]) => source([uri], [suite], /\bsigned-by=(\S+)/.exec(options ?? "")?.[1] ?? ""),
  );
}

// An inline key has no path, so the distribution's keyring replaces it.
const source = (uris, suites, signedBy) => ({
  uris,
  suites,
  ...(signedBy.startsWith("/") ? { signedBy } : {}),
});

const words = (text) => text.split(/\s+/).filter(Boolean);
