"""What to try where a step takes more memory than there is."""

from tag2box.config import Recipe


def less_memory(recipe: Recipe, processes: int) -> str:
    """Options with which a step takes less memory and a run learns much the same, where there are such.

    >>> less_memory(Recipe(), processes=1)
    '--optimiser.images 1 --optimiser.accumulate 2 --optimiser.warmup 200'
    >>> less_memory(Recipe(), processes=2)
    'fewer --data.max_proposals or smaller --data.scales'
    """
    own, data = recipe.optimiser, recipe.data
    times = 2 if own.images % (2 * processes) == 0 else own.images // processes
    if times == 1:
        return f"fewer --data.{'drawn' if data.drawn_proposals else 'max'}_proposals or smaller --data.scales"
    fewer = {"images": own.images // times, "accumulate": times * own.accumulate, "warmup": times * own.warmup}
    options = [f"--optimiser.{name} {value}" for name, value in fewer.items()]
    if recipe.warm.least_steps:
        options.append(f"--warm.least_steps {times * recipe.warm.least_steps}")
    return " ".join(options)
