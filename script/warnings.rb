# frozen_string_literal: true

# What compilers are to say of our C while it is worked on: it must be nothing. Users' builds ask for
# no warnings, since their compilers may know others.
module Warnings
  ALL = %w[-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wpointer-arith
           -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wnested-externs -Wredundant-decls
           -Wvla -Wwrite-strings -Wformat=2 -Wdouble-promotion -Wnull-dereference -Werror].freeze
  # (-Wcast-align=strict: on x86, where any address will do, gcc is silent otherwise.)
  GCC = %w[-Wcast-align=strict -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Warith-conversion].freeze
  CLANG = %w[-Wcast-align -Wassign-enum -Wcomma -Wconditional-uninitialized -Wloop-analysis].freeze

  # @param compiler [String] its name, or the command that runs it
  # @return [Array<String>]
  def self.of(compiler)
    ALL + (`#{compiler} --version`.include?("clang") ? CLANG : GCC)
  end
end
