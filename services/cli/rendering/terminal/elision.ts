// Ids and names in less space: the middle is replaced by "…", because names that differ do so at one of their ends. Commands accept the
// short form, see `input/elided-id.ts`.

const ENDING = 6;
/** A UUID: the time of its first part, and the random digits of its last one. */
const UUID = new RegExp(`([0-9a-f]{8})-[0-9a-f-]{${27 - ENDING}}([0-9a-f]{${ENDING}})`, "g");

/** The checkpoint or handoff ids in a cell in their short form: "chk-01a20afe…34d6ef". */
export const briefIds = (cell: string): string => cell.replace(UUID, "$1…$2");

/** A name in a width, with both of its ends. */
export function elided(name: string, width: number): string {
  return withEnds(name, width, Math.ceil((width - 1) / 2));
}

/** The names of a column, which stay distinct where two ends of that width can distinguish them. */
export function elidedColumn(names: readonly string[], width: number): string[] {
  const distinct = new Set(names).size;
  const middle = Math.ceil((width - 1) / 2);
  const places = Array.from({ length: Math.max(1, width) }, (_, place) => place);
  // From the middle outwards.
  places.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  for (const begin of places) {
    const column = names.map((name) => withEnds(name, width, begin));
    if (new Set(column).size === distinct) return column;
  }
  return names.map((name) => elided(name, width));
}

function withEnds(name: string, width: number, begin: number): string {
  const characters = [...name];
  if (characters.length <= width) return name;
  const end = Math.max(0, width - 1 - begin);
  return `${characters.slice(0, begin).join("")}…${characters.slice(characters.length - end).join("")}`;
}
